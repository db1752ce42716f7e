package ssh

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/windowsmachine/operator/pkg/transport"
	"github.com/windowsmachine/operator/pkg/transport/ssh/sshtest"
)

// keyPair is a key in one format.
type keyPair struct {
	name, text string
	// algorithm is that of the public key.
	algorithm string
}

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func must[T any](t testing.TB, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func openSSH(t testing.TB, key crypto.PrivateKey) string {
	t.Helper()
	b, err := ssh.MarshalPrivateKey(key, "somebody@example.test")
	return string(pem.EncodeToMemory(must(t, b, err)))
}

// keys makes one of each type and format.
func keys(t testing.TB) []keyPair {
	t.Helper()
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	rsaKey := must(t, r, err)
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ecKey := must(t, e, err)
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8 := func(k any) string {
		der, err := x509.MarshalPKCS8PrivateKey(k)
		return block("PRIVATE KEY", must(t, der, err))
	}
	sec1, err := x509.MarshalECPrivateKey(ecKey)
	return []keyPair{
		{"RSA PKCS#1", block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey)), ssh.KeyAlgoRSA},
		{"RSA PKCS#8", pkcs8(rsaKey), ssh.KeyAlgoRSA},
		{"RSA OpenSSH", openSSH(t, rsaKey), ssh.KeyAlgoRSA},
		{"ECDSA SEC 1", block("EC PRIVATE KEY", must(t, sec1, err)), ssh.KeyAlgoECDSA256},
		{"ECDSA PKCS#8", pkcs8(ecKey), ssh.KeyAlgoECDSA256},
		{"ECDSA OpenSSH", openSSH(t, ecKey), ssh.KeyAlgoECDSA256},
		{"Ed25519 PKCS#8", pkcs8(edKey), ssh.KeyAlgoED25519},
		{"Ed25519 OpenSSH", openSSH(t, edKey), ssh.KeyAlgoED25519},
	}
}

func TestW67KeyFormats(t *testing.T) {
	variants := []struct {
		name   string
		change func(string) string
		want   error
	}{
		{"as it is", func(s string) string { return s }, nil},
		{"no final line feed", func(s string) string { return strings.TrimRight(s, "\n") }, nil},
		{"CRLF", func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }, nil},
		{"CR", func(s string) string { return strings.ReplaceAll(s, "\n", "\r") }, nil},
		{"leading blank line", func(s string) string { return "\n \r\n" + s }, nil},
		{"trailing blank lines", func(s string) string { return s + "\n\n" }, nil},
		{"blank lines between", func(s string) string { return strings.ReplaceAll(s, "\n", "\n\n") }, nil},
		{"byte order mark", func(s string) string { return "\ufeff" + s }, nil},
		{"indented", func(s string) string { return "    " + strings.ReplaceAll(s, "\n", "\n    ") }, nil},
		{"backslash n", func(s string) string { return strings.ReplaceAll(s, "\n", `\n`) }, ErrKeyNewlines},
		{"backslash r backslash n", func(s string) string { return strings.ReplaceAll(s, "\n", `\r\n`) }, ErrKeyNewlines},
		{"UTF-16", func(s string) string { return "\xff\xfe" + strings.Join(strings.Split(s, ""), "\x00") + "\x00" }, ErrKeyEncoding},
		{"cut", func(s string) string { return s[:len(s)/2] }, ErrKeyFormat},
		{"on one line", func(s string) string { return strings.ReplaceAll(s, "\n", " ") }, ErrKeyFormat},
	}
	for _, k := range keys(t) {
		for _, v := range variants {
			t.Run(k.name+" "+v.name, func(t *testing.T) {
				s, err := ParseKey([]byte(v.change(k.text)))
				if !errors.Is(err, v.want) {
					t.Fatalf("got %v", err)
				}
				if err == nil && s.PublicKey().Type() != k.algorithm {
					t.Errorf("the key is %s", s.PublicKey().Type())
				}
				checkKeyError(t, err, k.text)
			})
		}
	}
}

// checkKeyError looks for key material in a message.
func checkKeyError(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil {
		return
	}
	if !errors.Is(err, transport.ErrKey) {
		t.Errorf("%v is no transport.ErrKey", err)
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); len(line) > 8 && strings.Contains(err.Error(), line) {
			t.Errorf("the message holds a line of the key")
		}
	}
}

func TestW67KeyMistakes(t *testing.T) {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(ed)
	public := must(t, signer, err).PublicKey()
	spki, err := x509.MarshalPKIXPublicKey(ed.Public())
	// The container of PROTOCOL.key with a cipher; what is in it is never looked at.
	encrypted := append([]byte("openssh-key-v1\x00"), ssh.Marshal(struct {
		Cipher, KDF, Options string
		Keys                 uint32
		Public, Private      []byte
	}{"aes256-ctr", "bcrypt", "salt", 1, public.Marshal(), make([]byte, 128)})...)
	for _, tc := range []struct {
		name, text string
		want       error
	}{
		{"nothing", "", ErrKeyEmpty},
		{"white space", " \r\n\t\n", ErrKeyEmpty},
		{"only a byte order mark", "\ufeff", ErrKeyEmpty},
		{"public key", string(ssh.MarshalAuthorizedKey(public)), ErrKeyPublic},
		{"public ECDSA key", "ecdsa-sha2-nistp256 AAAA", ErrKeyPublic},
		{"public key in PEM", block("PUBLIC KEY", must(t, spki, err)), ErrKeyPublic},
		{"public key of RFC 4716", "---- BEGIN SSH2 PUBLIC KEY ----\nAAAA\n---- END SSH2 PUBLIC KEY ----\n", ErrKeyPublic},
		{"certificate", block("CERTIFICATE", []byte("x")), ErrKeyPublic},
		{"encrypted OpenSSH", block("OPENSSH PRIVATE KEY", encrypted), ErrKeyEncrypted},
		{"encrypted PKCS#8", block("ENCRYPTED PRIVATE KEY", []byte("x")), ErrKeyEncrypted},
		{"encrypted PKCS#1", "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00112233445566778899AABBCCDDEEFF\n\nAAAA\n-----END RSA PRIVATE KEY-----\n", ErrKeyEncrypted},
		{"PuTTY", "PuTTY-User-Key-File-3: ssh-ed25519\n", ErrKeyFormat},
		{"text", "correct horse battery staple", ErrKeyFormat},
		{"DSA", block("DSA PRIVATE KEY", []byte("x")), ErrKeyFormat},
		{"empty block", block("RSA PRIVATE KEY", nil), ErrKeyFormat},
		{"too long", strings.Repeat("A", maxKey+1), ErrKeyFormat},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := ParseKey([]byte(tc.text))
			if !errors.Is(err, tc.want) || s != nil {
				t.Fatalf("got %v", err)
			}
			checkKeyError(t, err, tc.text)
			for _, other := range []error{ErrKeyEmpty, ErrKeyPublic, ErrKeyEncrypted, ErrKeyNewlines, ErrKeyEncoding, ErrKeyFormat} {
				if !errors.Is(other, tc.want) && errors.Is(err, other) {
					t.Errorf("%v is also %v", err, other)
				}
			}
		})
	}
}

// A server that takes SHA-2 only sees SHA-2, and one that announces nothing is not sent SHA-1.
func TestW67RSASignsWithSHA2(t *testing.T) {
	var rsaText string
	for _, k := range keys(t) {
		if k.name == "RSA PKCS#1" {
			rsaText = k.text
		}
	}
	signer, err := ParseKey([]byte(rsaText))
	if err != nil {
		t.Fatal(err)
	}
	multi, ok := signer.(ssh.MultiAlgorithmSigner)
	if !ok {
		t.Fatal("the signer does not bound its algorithms")
	}
	if got := fmt.Sprint(multi.Algorithms()); got != "[rsa-sha2-512 rsa-sha2-256]" {
		t.Errorf("signs with %s", got)
	}
	for _, algorithm := range []string{ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSASHA512} {
		s := sshtest.New(t, sshtest.Options{Config: func(c *ssh.ServerConfig) {
			c.PublicKeyAuthAlgorithms = []string{algorithm}
			c.PublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, nil }
		}})
		target := s.Target()
		target.PrivateKeys = [][]byte{[]byte(rsaText)}
		c, err := (&Dialer{}).Dial(t.Context(), target)
		if err != nil {
			t.Fatalf("%s: %v", algorithm, err)
		}
		closeConn(t, c)
	}
}

// FuzzParseKey: a text is a key or an error that says nothing of it; no key signs with SHA-1; and what copying does to a text changes nothing.
func FuzzParseKey(f *testing.F) {
	for _, k := range keys(f) {
		f.Add([]byte(k.text))
	}
	f.Add([]byte("ssh-ed25519 AAAA"))
	f.Add([]byte("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: x\n\nAAAA\n-----END RSA PRIVATE KEY-----\n"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := ParseKey(text)
		if (s == nil) == (err == nil) || (err != nil && !errors.Is(err, transport.ErrKey)) {
			t.Fatalf("signer %v with error %v", s != nil, err)
		}
		if err != nil {
			checkConstant(t, err)
			return
		}
		if len(text) > maxKey {
			t.Errorf("%d bytes were read", len(text))
		}
		multi, ok := s.(ssh.MultiAlgorithmSigner)
		if s.PublicKey().Type() == ssh.KeyAlgoRSA && (!ok || slices.Contains(multi.Algorithms(), ssh.KeyAlgoRSA)) {
			t.Error("signs with SHA-1")
		}
		for _, copied := range [][]byte{
			bytes.TrimSpace(text), append([]byte("\n\n"), text...), bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n")),
		} {
			again, err := ParseKey(copied)
			if len(copied) <= maxKey && (err != nil || !bytes.Equal(again.PublicKey().Marshal(), s.PublicKey().Marshal())) {
				t.Fatalf("a copy is another key: %v", err)
			}
		}
	})
}

// checkConstant: an error of ParseKey is one of a few fixed texts, and so holds nothing of a key.
func checkConstant(t *testing.T, err error) {
	t.Helper()
	for _, known := range []error{ErrKeyEmpty, ErrKeyPublic, ErrKeyEncrypted, ErrKeyNewlines, ErrKeyEncoding, ErrKeyFormat} {
		if err.Error() == known.Error() {
			return
		}
	}
	t.Errorf("unknown text %q", err)
}
