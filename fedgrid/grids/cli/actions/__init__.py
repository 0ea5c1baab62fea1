"""What commands do that belong to no other room: write reports, list choices, begin a study."""
