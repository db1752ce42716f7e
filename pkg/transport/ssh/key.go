package ssh

import (
	"bytes"
	"crypto/rsa"
	"errors"
	"fmt"

	"golang.org/x/crypto/ssh"

	"github.com/windowsmachine/operator/pkg/transport"
)

// maxKey bounds the text of a private key, in bytes. RSA 16384 needs 13 kB.
const maxKey = 64 << 10

// What may be wrong with a private key's text. Each wraps transport.ErrKey and none holds anything of the key.
var (
	// ErrKeyEmpty: there is no text.
	ErrKeyEmpty = fmt.Errorf("%w: it is empty", transport.ErrKey)
	// ErrKeyPublic: the text is a public key or a certificate.
	ErrKeyPublic = fmt.Errorf("%w: it is a public key; give the private key that belongs to it", transport.ErrKey)
	// ErrKeyEncrypted: the key has a passphrase.
	ErrKeyEncrypted = fmt.Errorf("%w: it is encrypted with a passphrase; give one without", transport.ErrKey)
	// ErrKeyNewlines: the text has the two characters \n where line ends should be.
	ErrKeyNewlines = fmt.Errorf(`%w: it holds the two characters \n instead of line ends; store it as a file of several lines`, transport.ErrKey)
	// ErrKeyEncoding: the text is UTF-16.
	ErrKeyEncoding = fmt.Errorf("%w: it is written in UTF-16; store it as UTF-8 or ASCII", transport.ErrKey)
	// ErrKeyFormat: the text is none of the known formats.
	ErrKeyFormat = fmt.Errorf("%w: it is not a PEM private key (PKCS#1, PKCS#8, SEC 1 or OpenSSH; RSA, ECDSA or Ed25519)", transport.ErrKey)
)

// ParseKey reads a private key in any common PEM format: PKCS#1, PKCS#8, SEC 1 or OpenSSH, of type RSA, ECDSA or Ed25519. A byte
// order mark, CRLF line ends, blank lines around, indentation and a missing last line end do not matter. RSA keys sign with
// SHA-2 only.
func ParseKey(text []byte) (ssh.Signer, error) {
	text, err := normalizeKey(text)
	if err != nil {
		return nil, err
	}
	raw, err := ssh.ParseRawPrivateKey(text)
	if missing := (*ssh.PassphraseMissingError)(nil); errors.As(err, &missing) {
		return nil, ErrKeyEncrypted
	}
	if err != nil {
		return nil, ErrKeyFormat
	}
	return newSigner(raw)
}

func newSigner(raw any) (ssh.Signer, error) {
	signer, err := ssh.NewSignerFromKey(raw)
	if err != nil {
		return nil, ErrKeyFormat
	}
	as, ok := signer.(ssh.AlgorithmSigner)
	switch signer.PublicKey().Type() {
	case ssh.KeyAlgoRSA:
		if _, isRSA := raw.(*rsa.PrivateKey); !isRSA || !ok {
			return nil, ErrKeyFormat
		}
		// Without this, a server that does not announce its algorithms would be sent a SHA-1 signature.
		multi, err := ssh.NewSignerWithAlgorithms(as, []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256})
		if err != nil {
			return nil, ErrKeyFormat
		}
		return multi, nil
	case ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521:
		return signer, nil
	}
	return nil, ErrKeyFormat
}

// normalizeKey undoes what copying and pasting does to a key, and names what cannot be undone.
func normalizeKey(text []byte) ([]byte, error) {
	if len(text) > maxKey {
		return nil, ErrKeyFormat
	}
	if bytes.HasPrefix(text, []byte{0xff, 0xfe}) || bytes.HasPrefix(text, []byte{0xfe, 0xff}) {
		return nil, ErrKeyEncoding
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	text = bytes.TrimSpace(bytes.ReplaceAll(text, []byte("\r"), []byte("\n")))
	switch {
	case len(text) == 0:
		return nil, ErrKeyEmpty
	case bytes.Contains(text, []byte(`\n`)):
		return nil, ErrKeyNewlines
	case isPublic(text):
		return nil, ErrKeyPublic
	case bytes.Contains(text, []byte("BEGIN ENCRYPTED PRIVATE KEY")):
		return nil, ErrKeyEncrypted
	}
	var lines [][]byte
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			lines = append(lines, line)
		}
	}
	return append(bytes.Join(restoreHeaderGap(lines), []byte("\n")), '\n'), nil
}

// restoreHeaderGap puts the blank line back that ends the headers of an RFC 1421 block ("Proc-Type: 4,ENCRYPTED").
func restoreHeaderGap(lines [][]byte) [][]byte {
	last := -1
	for i, line := range lines {
		if bytes.Contains(line, []byte(": ")) {
			last = i
		}
	}
	if last < 0 {
		return lines
	}
	out := append([][]byte{}, lines[:last+1]...)
	return append(append(out, nil), lines[last+1:]...)
}

func isPublic(text []byte) bool {
	if bytes.Contains(text, []byte("PRIVATE KEY")) {
		return false
	}
	for _, mark := range []string{
		"ssh-", "ecdsa-", "sk-", "-----BEGIN PUBLIC KEY", "-----BEGIN RSA PUBLIC KEY", "-----BEGIN CERTIFICATE",
		"---- BEGIN SSH2 PUBLIC KEY",
	} {
		if bytes.HasPrefix(text, []byte(mark)) {
			return true
		}
	}
	return false
}
