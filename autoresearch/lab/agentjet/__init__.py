"""AgentJet's swarm mode: the server's session beside the client's, from its start to the free port; and scaffolds."""
