"""What commands do that belong to no other room: write reports, list what there is to choose from."""
