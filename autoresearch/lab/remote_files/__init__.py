"""Files on hosts without access to the local ones: uploaded, mirrored, downloaded."""
