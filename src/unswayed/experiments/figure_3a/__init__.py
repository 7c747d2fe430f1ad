"""Figure 3(a): the number of users grows, the effective corruption rate."""
