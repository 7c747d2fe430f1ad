"""Figure 2(b): the number of actions grows."""
