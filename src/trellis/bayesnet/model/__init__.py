"""Networks and factor graphs as data: variables, edges, tables, and networks made from others."""
