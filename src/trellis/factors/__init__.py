"""Products of tables over discrete variables: elimination orders, junction trees, exact answers."""
