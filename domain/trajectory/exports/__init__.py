"""The graph in other forms: as a networkx graph, as node-link JSON, and drawn in DOT and Mermaid."""
