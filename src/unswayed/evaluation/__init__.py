"""How good a policy is for honest users, from a log of another one."""
