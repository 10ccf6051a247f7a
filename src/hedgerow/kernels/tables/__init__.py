"""From the values of a table to cuts, bins, bundles and statistics of categories."""
