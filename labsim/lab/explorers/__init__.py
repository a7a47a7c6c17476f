"""The explorers of the course: one module per notebook, one function per explorer."""
