"""Draft checkpoints on their way to an engine: the doctor, the export, and faults planted on purpose."""
