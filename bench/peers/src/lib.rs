//! Empty: this project only pins the crates that carry the rivals' sources (see ../README.md).
