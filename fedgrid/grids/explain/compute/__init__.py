"""Which pixels a model's answer rests on: saliency maps, and insertion and deletion curves that test them."""
