package windows

import (
	"bytes"
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Bounds: bytes of one certificate, certificates of a store.
const (
	maxCertificate  = 64 << 10
	maxCertificates = 100_000
)

// certificates are the stores of the machine.
type certificates struct{}

// Has compares encoded bytes. The store ROOT is a view on several, so that a certificate that group policy or Windows Update has put
// there counts.
func (certificates) Has(store string, der []byte) (found bool, err error) {
	err = withStore(store, der, true, func(handle windows.Handle) error {
		context, err := findCertificate(handle, der)
		if context != nil {
			found = true
			return windows.CertFreeCertificateContext(context)
		}
		return err
	})
	return found, failed("look for certificate in", store, err)
}

func (certificates) Add(store string, der []byte) error {
	return failed("add certificate to", store, withStore(store, der, false, func(handle windows.Handle) error {
		context, err := windows.CertCreateCertificateContext(windows.X509_ASN_ENCODING, &der[0], uint32(len(der)))
		if err != nil {
			return err
		}
		defer func() { _ = windows.CertFreeCertificateContext(context) }()
		return windows.CertAddCertificateContextToStore(handle, context, windows.CERT_STORE_ADD_USE_EXISTING, nil)
	}))
}

// Delete takes the certificate away; one that is not there is no error.
func (certificates) Delete(store string, der []byte) error {
	return failed("delete certificate from", store, withStore(store, der, false, func(handle windows.Handle) error {
		context, err := findCertificate(handle, der)
		if context == nil {
			return err
		}
		// This frees the context, also when it fails.
		return windows.CertDeleteCertificateFromStore(context)
	}))
}

func withStore(store string, der []byte, readOnly bool, f func(windows.Handle) error) error {
	if store != "ROOT" && store != "CA" {
		return fmt.Errorf("unknown certificate store %q", store)
	}
	if len(der) == 0 || len(der) > maxCertificate {
		return fmt.Errorf("certificate of %d bytes, at most %d", len(der), maxCertificate)
	}
	name, err := windows.UTF16PtrFromString(store)
	if err != nil {
		return err
	}
	flags := uint32(windows.CERT_SYSTEM_STORE_LOCAL_MACHINE)
	if readOnly {
		flags |= windows.CERT_STORE_READONLY_FLAG
	}
	handle, err := windows.CertOpenStore(windows.CERT_STORE_PROV_SYSTEM_W, 0, 0, flags, uintptr(unsafe.Pointer(name)))
	if err != nil {
		return err
	}
	defer func() { _ = windows.CertCloseStore(handle, 0) }()
	return f(handle)
}

// findCertificate returns the context of the certificate with exactly these bytes, to be freed by the caller, or nil when there
// is none.
func findCertificate(store windows.Handle, der []byte) (*windows.CertContext, error) {
	var context *windows.CertContext
	for range maxCertificates {
		next, err := windows.CertEnumCertificatesInStore(store, context) // frees the previous one
		if next == nil {
			if is(err, uint32(windows.CRYPT_E_NOT_FOUND)) || is(err, uint32(windows.ERROR_NO_MORE_FILES)) {
				return nil, nil
			}
			return nil, err
		}
		context = next
		if bytes.Equal(unsafe.Slice(context.EncodedCert, context.Length), der) {
			return context, nil
		}
	}
	return nil, windows.CertFreeCertificateContext(context)
}
