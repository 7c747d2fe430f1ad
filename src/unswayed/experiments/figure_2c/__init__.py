"""Figure 2(c): every user interacts more."""
