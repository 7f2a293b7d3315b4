"""What bench/run is made of: the suite, the processes it drives, the order of measuring, and the results."""
