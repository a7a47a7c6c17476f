"""From a record and two benchmarks to a staged plan."""
