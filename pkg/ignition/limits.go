package ignition

// Limits on what is read. Kubernetes objects stay below 1.5 MiB and the ignition that a machine config server serves below a
// few MiB, so all of them are far above what is seen.
const (
	// MaxInput bounds what Parse is given.
	MaxInput = 16 << 20
	// MaxExpanded bounds all documents of one Parse together: every layer of compression and encoding, and merged configs.
	MaxExpanded = 64 << 20
	// MaxFile bounds one file with what is appended to it, decompressed.
	MaxFile = 4 << 20
	// maxUnit bounds a systemd unit with its drop-ins.
	maxUnit = 1 << 20
	// maxElements bounds the objects, lists and commas of a document: 64 MiB of "{}," would decode to gigabytes.
	maxElements = 200_000
	// maxLayers bounds gzip, base64 and UTF-16 around a document.
	maxLayers = 4
	// maxDepth bounds the nesting of merged configs, maxDocuments their number.
	maxDepth     = 8
	maxDocuments = 64
)

// budget is what is left of MaxExpanded and maxDocuments.
type budget struct {
	bytes     int
	documents int
}

func newBudget() *budget { return &budget{bytes: MaxExpanded, documents: maxDocuments} }

// spend takes n bytes.
func (b *budget) spend(n int) error {
	if n > b.bytes {
		return tooLarge("the documents together", MaxExpanded)
	}
	b.bytes -= n
	return nil
}
