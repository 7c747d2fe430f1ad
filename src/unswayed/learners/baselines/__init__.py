"""What people run today, to compare with."""
