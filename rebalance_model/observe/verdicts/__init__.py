"""What is wrong with it: the rules, the life of an incident, and the state that is shown."""
