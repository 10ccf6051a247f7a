"""Tables of the commands: files, standard input, and tables read in batches."""
