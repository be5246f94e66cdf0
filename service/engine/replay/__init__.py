"""Models replayed from the journal: earlier versions, corrections, forgetting, what-ifs, all by one counterfactual."""
