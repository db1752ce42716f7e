package payload

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxMessage bounds one line of the receive protocol, in bytes without the line feed.
const MaxMessage = 128 << 10

// ErrMessage is wrapped by every error about a message of the receive protocol.
var ErrMessage = errors.New("invalid receive message")

// MaxHost bounds Offer.Host, in bytes.
const MaxHost = 256

// Offer is the operator's first line: {"host":"…","order":…,"blobs":[{"sha256":"…","size":…}]}.
type Offer struct {
	// Host identifies the WindowsHost object (its UID), and Order this request among all that were made for it: the agent refuses an offer when a request
	// of a higher order has come before. Both are absent in the offers of older operators, which are fenced by nothing.
	Host  string        `json:"host,omitempty"`
	Order int64         `json:"order,omitempty"`
	Blobs []OfferedBlob `json:"blobs"`
}

// OfferedBlob is a blob that the operator can send. Size is in uncompressed bytes, so that the agent can refuse early when the
// disk is too small.
type OfferedBlob struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// Need is the agent's answer to an Offer: {"need":["…"],"have":{"…":…}}. The list is present, if empty, and names offered blobs only.
type Need struct {
	Need []string `json:"need"`
	// Have says of a needed blob how many of its bytes are there from a transfer that was cut. Nobody has checked them; the digest is that of the
	// whole.
	Have map[string]int64 `json:"have,omitempty"`
}

// Result is the agent's last line: {"stored":["…"]}, or {"code":"…","detail":"…"} when it could not go on.
type Result struct {
	// Stored are the digests that were stored by this run.
	Stored []string `json:"stored"`
	// Code is one of the agent's codes, "" on success. Detail is for people.
	Code   string `json:"code,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// Validate checks o against the limits; no digest may appear twice.
func (o Offer) Validate() error {
	if len(o.Host) > MaxHost || o.Order < 0 {
		return fmt.Errorf("%w: a host of %d bytes, at most %d, and order %d", ErrMessage, len(o.Host), MaxHost, o.Order)
	}
	if len(o.Blobs) > MaxBlobs {
		return fmt.Errorf("%w: more than %d blobs", ErrMessage, MaxBlobs)
	}
	seen := map[string]bool{}
	for _, b := range o.Blobs {
		if err := checkBlob(b.SHA256, b.Size); err != nil {
			return fmt.Errorf("%w: %w", ErrMessage, err)
		}
		if seen[b.SHA256] {
			return fmt.Errorf("%w: blob %s is offered twice", ErrMessage, b.SHA256)
		}
		seen[b.SHA256] = true
	}
	return nil
}

// Validate checks that n names blobs of o only, each once, and that no more of one is there than it has.
func (n Need) Validate(o Offer) error {
	open, size := map[string]bool{}, map[string]int64{}
	for _, b := range o.Blobs {
		open[b.SHA256], size[b.SHA256] = true, b.Size
	}
	needed := map[string]bool{}
	for _, d := range n.Need {
		if !open[d] {
			return fmt.Errorf("%w: a needed blob was not offered, or is needed twice", ErrMessage)
		}
		delete(open, d)
		needed[d] = true
	}
	for d, have := range n.Have {
		if !needed[d] || have <= 0 || have >= size[d] {
			return fmt.Errorf("%w: %d bytes of a blob are said to be there that is not needed or has no more", ErrMessage, have)
		}
	}
	return nil
}

// ReadOffer reads the Offer line; the frames follow in r.
func ReadOffer(r *bufio.Reader) (Offer, error) {
	line, err := ReadLine(r, MaxMessage)
	if err != nil {
		return Offer{}, fmt.Errorf("reading the offer: %w", err)
	}
	var o Offer
	if err := json.Unmarshal(line, &o); err != nil {
		return Offer{}, fmt.Errorf("%w: the offer is not JSON: %w", ErrMessage, err)
	}
	return o, o.Validate()
}

// WriteMessage writes one message (Offer, Need or Result) as a line.
func WriteMessage(w io.Writer, message any) error {
	line, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encoding a receive message: %w", err)
	}
	if len(line) > MaxMessage {
		return fmt.Errorf("%w: %d bytes are too long", ErrMessage, len(line))
	}
	if _, err := w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing a receive message: %w", err)
	}
	return nil
}

// ParseAnswer reads a line of the agent's output. ok is false when the line is none of the agent's, which happens: a login script
// or PowerShell's CLIXML may print around it. At most one of need and result is set.
func ParseAnswer(line []byte) (need *Need, result *Result, ok bool) {
	if len(line) > MaxMessage {
		return nil, nil, false
	}
	var both struct {
		Need *[]string        `json:"need"`
		Have map[string]int64 `json:"have"`
		Result
	}
	if err := json.Unmarshal(line, &both); err != nil {
		return nil, nil, false
	}
	switch {
	case both.Need != nil:
		return &Need{Need: *both.Need, Have: both.Have}, nil, true
	case both.Code != "" || both.Stored != nil:
		return nil, &both.Result, true
	}
	return nil, nil, false
}

// ReadLine reads a line of at most limit bytes without its end (LF or CRLF). A longer line is an error that wraps ErrMessage; an
// input that ends without a line feed is io.ErrUnexpectedEOF, one that has ended io.EOF.
func ReadLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > limit+2 {
			return nil, fmt.Errorf("%w: a line is longer than %d bytes", ErrMessage, limit)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return checkLine(line[:len(line)-1], limit)
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

func checkLine(line []byte, limit int) ([]byte, error) {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	if len(line) > limit {
		return nil, fmt.Errorf("%w: a line is longer than %d bytes", ErrMessage, limit)
	}
	return line, nil
}
