"""Tables of the commands: files of any dialect, standard input, and tables read in batches."""
