"""Values of the criteria door: what is judged, on which scales, and the judgement."""
