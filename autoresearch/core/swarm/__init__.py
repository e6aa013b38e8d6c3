"""AgentJet's swarm mode and black-box agents: notes, statuses and metrics, without I/O."""
