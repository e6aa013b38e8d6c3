"""A stand-in for AgentJet: the part of its client that rendered files call, with strict signatures."""
