"""Networks and factor graphs: variables, tables, arrows, ways to build and change them."""
