package ignition

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	"golang.org/x/text/encoding/unicode"
)

// plain takes gzip, base64 and UTF-16 off a document, in any order and at most maxLayers deep, and returns UTF-8 without a byte order
// mark. Hosted control planes store the ignition as base64(gzip(json)) to stay below the size of a ConfigMap; PowerShell's
// redirection writes UTF-16.
func plain(data []byte, b *budget) ([]byte, error) {
	for range maxLayers {
		next, done, err := peel(data, b)
		if err != nil || done {
			return next, err
		}
		data = next
	}
	return nil, fmt.Errorf("%w: more than %d layers of compression and encoding", ErrNotIgnition, maxLayers)
}

// peel takes one layer off; done is true when the result is JSON text.
func peel(data []byte, b *budget) (out []byte, done bool, err error) {
	if isGzip(data) {
		out, err = gunzip(data, b.bytes)
		if err != nil {
			return nil, false, fmt.Errorf("reading gzip input: %w", err)
		}
		return out, false, b.spend(len(out))
	}
	text, err := utf8Text(data)
	if err != nil {
		return nil, false, err
	}
	text = bytes.TrimSpace(text)
	switch {
	case len(text) == 0:
		return nil, false, ErrEmpty
	case text[0] == '{':
		return text, true, nil
	case bytes.HasPrefix(text, []byte("#!")), bytes.HasPrefix(text, []byte("#cloud-config")):
		return nil, false, fmt.Errorf("%w: it is a script or cloud-config", ErrNotIgnition)
	}
	out, ok := fromBase64(text)
	if !ok {
		return nil, false, fmt.Errorf("%w: it is neither JSON nor gzip nor base64", ErrNotIgnition)
	}
	return out, false, b.spend(len(out))
}

// utf8Text decodes UTF-16 and removes a byte order mark. Text that starts with an ASCII character and a zero byte, or the other
// way round, is UTF-16 whose mark was lost.
func utf8Text(data []byte) ([]byte, error) {
	endian, utf16 := sniffUTF16(data)
	if !utf16 {
		return bytes.TrimPrefix(data, []byte{0xEF, 0xBB, 0xBF}), nil
	}
	if len(data)%2 != 0 {
		return nil, fmt.Errorf("%w: it is UTF-16 text of an odd number of bytes", ErrNotIgnition)
	}
	out, err := unicode.UTF16(endian, unicode.UseBOM).NewDecoder().Bytes(data)
	if err != nil {
		return nil, fmt.Errorf("%w: it is UTF-16 text that does not decode", ErrNotIgnition)
	}
	return out, nil
}

func sniffUTF16(data []byte) (unicode.Endianness, bool) {
	if len(data) < 2 {
		return unicode.LittleEndian, false
	}
	switch a, b := data[0], data[1]; {
	case a == 0xFF && b == 0xFE, a != 0 && a < 0x80 && b == 0:
		return unicode.LittleEndian, true
	case a == 0xFE && b == 0xFF, a == 0 && b != 0 && b < 0x80:
		return unicode.BigEndian, true
	}
	return unicode.LittleEndian, false
}

func isGzip(data []byte) bool { return len(data) >= 2 && data[0] == 0x1F && data[1] == 0x8B }

// gunzip decompresses at most limit bytes.
func gunzip(data []byte, limit int) ([]byte, error) {
	zr, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%w: damaged gzip", ErrContents)
	}
	out, err := io.ReadAll(io.LimitReader(zr, int64(limit)+1))
	if err != nil {
		return nil, fmt.Errorf("%w: damaged gzip", ErrContents)
	}
	if len(out) > limit {
		return nil, tooLarge("decompressed content", limit)
	}
	return out, nil
}

// fromBase64 decodes standard base64 with or without line ends and padding.
func fromBase64(text []byte) ([]byte, bool) {
	compact := bytes.Map(func(r rune) rune {
		switch r {
		case ' ', '\t', '\r', '\n':
			return -1
		}
		return r
	}, text)
	compact = bytes.TrimRight(compact, "=")
	out := make([]byte, base64.RawStdEncoding.DecodedLen(len(compact)))
	n, err := base64.RawStdEncoding.Decode(out, compact)
	var corrupt base64.CorruptInputError
	if errors.As(err, &corrupt) {
		return nil, false
	}
	return out[:n], err == nil
}
