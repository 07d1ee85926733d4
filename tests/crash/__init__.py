"""Writers are killed in mid-work; what they had acknowledged is there afterwards, and nothing is half there."""
