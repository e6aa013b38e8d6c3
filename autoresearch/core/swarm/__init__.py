"""AgentJet's swarm mode and black-box agents, as text and numbers."""
