"""The tests that an accusation must pass, and the verdict."""
