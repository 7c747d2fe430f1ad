"""Figure 2(d): the coalition grows, against corruption-robust learners."""
