"""Result rows as tables and figures."""
