"""What is said of a task that no worker of this node does."""

NO_DECODER = (
    "this node generates no text: start it with a decoder, `edgelora up` without --no-decoder"
)
NO_ENCODER = (
    "this node has no encoder, which classifies and embeds: start one with `edgelora up --encoder`"
)
