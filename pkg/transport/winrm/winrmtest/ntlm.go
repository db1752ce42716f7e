package winrmtest

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5"
	"crypto/rand"
	"crypto/rc4"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"sync"
	"unicode/utf16"

	"golang.org/x/crypto/md4" //nolint:staticcheck // NTLM is made of it (MS-NLMP 3.3.2)
)

// account is who may log in.
type account struct{ user, password, domain string }

// login is the NTLM state of a connection (MS-NLMP), the server's side.
type login struct {
	mu        sync.Mutex
	ok        bool
	challenge []byte
	// negotiate and offered are the first two messages, which the integrity code covers.
	negotiate, offered []byte
}

// Ids of attributes, and bits of flags (MS-NLMP 2.2.2.1, 2.2.2.5).
const (
	avEOL, avComputer, avDomain, avFlags, avTime, avBinding = 0, 1, 2, 6, 7, 10

	flagsOffered = 0x1 | 0x4 | 0x10 | 0x20 | 0x200 | 0x8000 | 0x20000 | 0x80000 | 0x800000 | 0x20000000 | 0x40000000 | 0x80000000
)

// step takes a client's message: the first is answered with a challenge, the second with yes or no.
func (l *login) step(token string, a account, cert []byte) (challenge string, ok bool) {
	b, err := base64.StdEncoding.DecodeString(token)
	if err != nil || len(b) < 12 || string(b[:8]) != "NTLMSSP\x00" {
		return "", false
	}
	switch binary.LittleEndian.Uint32(b[8:]) {
	case 1:
		l.ok, l.negotiate, l.challenge = false, b, make([]byte, 8)
		_, _ = rand.Read(l.challenge)
		l.offered = offer(l.challenge)
		return base64.StdEncoding.EncodeToString(l.offered), false
	case 3:
		l.ok = l.challenge != nil && l.proven(b, a, cert)
		l.challenge = nil
		return "", l.ok
	}
	return "", false
}

// offer is a challenge message with the attributes that Windows sends, a time among them, which obliges the client to an integrity code.
func offer(challenge []byte) []byte {
	var info []byte
	for _, av := range []struct {
		id    uint16
		value []byte
	}{{avDomain, wide("HOST")}, {avComputer, wide("HOST")}, {avTime, []byte{0, 0, 0, 0, 0, 0, 0xda, 1}}, {avEOL, nil}} {
		info = binary.LittleEndian.AppendUint16(info, av.id)
		info = binary.LittleEndian.AppendUint16(info, uint16(len(av.value)))
		info = append(info, av.value...)
	}
	name := wide("HOST")
	m := append([]byte("NTLMSSP\x00"), 2, 0, 0, 0)
	field := func(n, at int) {
		m = binary.LittleEndian.AppendUint16(m, uint16(n))
		m = binary.LittleEndian.AppendUint16(m, uint16(n))
		m = binary.LittleEndian.AppendUint32(m, uint32(at))
	}
	field(len(name), 56)
	m = binary.LittleEndian.AppendUint32(m, flagsOffered)
	m = append(append(m, challenge...), make([]byte, 8)...)
	field(len(info), 56+len(name))
	m = append(m, make([]byte, 8)...)
	return append(append(m, name...), info...)
}

// proven checks the proof of the password, the channel binding and the integrity code.
func (l *login) proven(m []byte, a account, cert []byte) bool {
	get := func(at int) []byte {
		n, from := int(binary.LittleEndian.Uint16(m[at:])), int(binary.LittleEndian.Uint32(m[at+4:]))
		if from+n > len(m) {
			return nil
		}
		return m[from : from+n]
	}
	if len(m) < 88 || !bytes.Equal(get(28), wide(a.domain)) || !bytes.Equal(get(36), wide(a.user)) {
		return false
	}
	response := get(20)
	if len(response) < 16+28 {
		return false
	}
	proof, rest := response[:16], response[16:]
	key := mac(md4sum(wide(a.password)), wide(strings.ToUpper(a.user)+a.domain))
	if !hmac.Equal(proof, mac(key, l.challenge, rest)) {
		return false
	}
	attributes := attributes(rest[28:])
	if !bytes.Equal(attributes[avBinding], bindingOf(cert)) {
		return false
	}
	return l.whole(m, mac(key, proof), get(52))
}

// whole checks the integrity code over all three messages (MS-NLMP 3.1.5.1.2).
func (l *login) whole(m, base, encrypted []byte) bool {
	c, err := rc4.NewCipher(base)
	if err != nil || len(encrypted) != 16 {
		return false
	}
	session := make([]byte, 16)
	c.XORKeyStream(session, encrypted)
	blank := append([]byte{}, m...)
	copy(blank[72:88], make([]byte, 16))
	return hmac.Equal(m[72:88], mac(session, l.negotiate, l.offered, blank))
}

func attributes(b []byte) map[uint16][]byte {
	out := map[uint16][]byte{}
	for len(b) >= 4 {
		id, n := binary.LittleEndian.Uint16(b), int(binary.LittleEndian.Uint16(b[2:]))
		if id == avEOL || len(b) < 4+n {
			break
		}
		out[id], b = b[4:4+n], b[4+n:]
	}
	return out
}

// bindingOf is the hash of the channel's bindings: two empty addresses, and the server's certificate (RFC 2744 3.11, RFC 5929 4).
func bindingOf(cert []byte) []byte {
	sum := sha256.Sum256(cert)
	app := append([]byte("tls-server-end-point:"), sum[:]...)
	b := make([]byte, 16)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(app)))
	h := md5.Sum(append(b, app...))
	return h[:]
}

func wide(s string) []byte {
	var b []byte
	for _, u := range utf16.Encode([]rune(s)) {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return b
}

func mac(key []byte, parts ...[]byte) []byte {
	h := hmac.New(md5.New, key)
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}

func md4sum(b []byte) []byte {
	h := md4.New()
	h.Write(b)
	return h.Sum(nil)
}
