"""AgentJet's swarm mode: its trainer, the server beside the run from start to the freed port; and the scaffold."""
