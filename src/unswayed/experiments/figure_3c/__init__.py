"""Figure 3(c): good users have tastes of their own."""
