package csr

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"testing"
)

func newEd25519(t *testing.T) crypto.Signer {
	t.Helper()
	_, k, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// signed is a certification request (RFC 2986) taken apart.
type signed struct {
	Info      asn1.RawValue
	Algorithm asn1.RawValue
	Signature asn1.BitString
}

// withSignatureOf puts the signature of the second request below the first.
func withSignatureOf(t *testing.T, first, second []byte) []byte {
	t.Helper()
	var parts [2]signed
	for i, text := range [][]byte{first, second} {
		block, _ := pem.Decode(text)
		if _, err := asn1.Unmarshal(block.Bytes, &parts[i]); err != nil {
			t.Fatal(err)
		}
	}
	parts[0].Signature = parts[1].Signature
	der, err := asn1.Marshal(parts[0])
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der})
}

func TestCheckKey(t *testing.T) {
	rsaKey := func(bits uint, e int) *rsa.PublicKey {
		n := new(big.Int).Lsh(big.NewInt(1), bits-1)
		return &rsa.PublicKey{N: n.Add(n, big.NewInt(1)), E: e}
	}
	on := func(c elliptic.Curve) *ecdsa.PublicKey { return &ecdsa.PublicKey{Curve: c} }
	for _, tc := range []struct {
		name string
		key  any
		ok   bool
	}{
		{"RSA 2047", rsaKey(2047, 65537), false},
		{"RSA 2048", rsaKey(2048, 65537), true},
		{"RSA 8192", rsaKey(8192, 65537), true},
		{"RSA 8193", rsaKey(8193, 65537), false},
		{"RSA exponent 3", rsaKey(2048, 3), false},
		{"P-224", on(elliptic.P224()), false},
		{"P-256", on(elliptic.P256()), true},
		{"P-384", on(elliptic.P384()), true},
		{"P-521", on(elliptic.P521()), true},
		{"unknown", nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := checkKey(&x509.CertificateRequest{PublicKey: tc.key}); (err == nil) != tc.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestCheckSignatureRefusesWeakHashes(t *testing.T) {
	for _, a := range []x509.SignatureAlgorithm{x509.SHA1WithRSA, x509.ECDSAWithSHA1, x509.MD5WithRSA, x509.PureEd25519, x509.UnknownSignatureAlgorithm} {
		if err := checkSignature(&x509.CertificateRequest{SignatureAlgorithm: a}); err == nil {
			t.Errorf("%s was accepted", a)
		}
	}
}
