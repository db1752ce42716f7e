// Package payload is the set of files that go to a machine: a Manifest that names each blob with its version, SHA-256,
// size, licence and source; a Store that keeps the blobs zstd-compressed on disk; and the frame format in which blobs
// travel to `wmcb receive` on standard input.
//
// A blob is identified by the SHA-256 of its uncompressed bytes and by nothing else. The package imports the standard library
// and klauspost/compress only, since the agent on the machine carries it.
//
// # How blobs are received
//
// The operator starts `wmcb receive` once and both sides talk over its standard input and output:
//
//  1. the operator writes one line of JSON, an Offer, with the digest and size of each blob that the plan needs;
//  2. the agent answers with one line, a Need, with the digests that it does not hold, and how much of one is there already;
//  3. the operator writes the frames of those (WriteFrames) and closes standard input, also when none is needed;
//  4. the agent checks each blob while it writes it, renames it into place, and answers with one line, a Result.
//
// An agent that cannot go on answers with a Result that carries a code at once, in the place of the Need or before all frames
// were read, and exits. Since every complete blob is in place by then, and the beginning of the one that was under way, the next receive needs only the
// rest.
package payload
