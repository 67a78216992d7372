"""The engines that run the recurrence: exact, and as cheap as the backbone."""
