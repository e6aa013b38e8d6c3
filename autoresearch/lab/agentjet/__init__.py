"""AgentJet's swarm mode: the server's session beside the client's, from start to the freed port; and scaffolds."""
