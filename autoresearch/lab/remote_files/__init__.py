"""Files on hosts that do not see ours: uploaded, mirrored, downloaded."""
