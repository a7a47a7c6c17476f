"""One module per `labsim` command; each exports `command`."""
