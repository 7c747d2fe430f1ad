"""Figure 2(a): the number of contexts grows."""
