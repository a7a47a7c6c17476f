"""Reading what engines print: one reader per format, one record out."""
