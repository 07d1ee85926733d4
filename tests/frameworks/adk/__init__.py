"""The session service of the Agent Development Kit, beside the services that the kit has."""
