"""Figure 3(b): the share of colluders is misstated."""
