package ignition

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
)

// resource is where the bytes of a file or of a merged config come from.
type resource struct {
	source      string
	compression string
	// hash is "sha512-<hex>" or "sha256-<hex>" of the decompressed bytes, "" when not given.
	hash string
}

// read decodes the resource into at most limit bytes.
func (r resource) read(limit int) ([]byte, error) {
	if r.compression != "" && r.compression != "gzip" {
		return nil, fmt.Errorf("%w: unknown compression %.32q", ErrContents, r.compression)
	}
	data, err := dataURL(r.source)
	if err != nil {
		return nil, err
	}
	if r.compression == "gzip" && r.source != "" {
		if data, err = r.decompress(data, limit); err != nil {
			return nil, err
		}
	}
	if len(data) > limit {
		return nil, tooLarge("content", limit)
	}
	return data, r.verify(data)
}

func (r resource) decompress(data []byte, limit int) ([]byte, error) {
	if !isGzip(data) {
		return nil, fmt.Errorf("%w: declared gzip, is not gzip", ErrContents)
	}
	out, err := gunzip(data, limit)
	if err != nil {
		return nil, fmt.Errorf("declared gzip: %w", err)
	}
	return out, nil
}

// verify checks the hash as Ignition does, over the decompressed bytes.
func (r resource) verify(data []byte) error {
	if r.hash == "" {
		return nil
	}
	kind, want, _ := strings.Cut(r.hash, "-")
	var got string
	switch kind {
	case "sha512":
		sum := sha512.Sum512(data)
		got = hex.EncodeToString(sum[:])
	case "sha256":
		sum := sha256.Sum256(data)
		got = hex.EncodeToString(sum[:])
	default:
		return fmt.Errorf("%w: unknown kind of verification hash %.32q", ErrContents, kind)
	}
	if !strings.EqualFold(got, want) {
		return fmt.Errorf("%w: its verification hash does not match", ErrContents)
	}
	return nil
}

// dataURL decodes a data: URL (RFC 2397); "" is no bytes. It stands here and not in a library because the known one lexes in
// a goroutine of its own and checks the media type, which Ignition ignores.
func dataURL(source string) ([]byte, error) {
	if source == "" {
		return nil, nil
	}
	scheme, rest, ok := strings.Cut(source, ":")
	if !ok || !strings.EqualFold(scheme, "data") {
		return nil, fmt.Errorf("%w: it stands at %s, and only data: URLs are read", ErrRemote, place(source))
	}
	meta, body, ok := strings.Cut(rest, ",")
	if !ok {
		return nil, fmt.Errorf("%w: a data: URL without a comma", ErrContents)
	}
	text, err := url.PathUnescape(body)
	if err != nil {
		return nil, fmt.Errorf("%w: bad percent encoding in a data: URL", ErrContents)
	}
	if !strings.HasSuffix(strings.ToLower(meta), ";base64") {
		return []byte(text), nil
	}
	data, ok := fromBase64([]byte(text))
	if !ok {
		return nil, fmt.Errorf("%w: bad base64 in a data: URL", ErrContents)
	}
	return data, nil
}

// place is scheme and host of a URL and nothing else of it: paths, queries and user parts may hold tokens.
func place(source string) string {
	u, err := url.Parse(source)
	if err != nil || u.Scheme == "" || u.Hostname() == "" {
		return "a place that is no data: URL"
	}
	return fmt.Sprintf("%.32s://%.253s", u.Scheme, u.Host)
}
