package windows

import (
	"context"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/windows"
)

// onlineImage is DISM_ONLINE_IMAGE: the running Windows ("DISM API Constants").
const onlineImage = "DISM_{53BFAE52-B167-4E2F-A258-0A37B57FF845}"

// dismAlreadyInitialized is DISMAPI_E_DISMAPI_ALREADY_INITIALIZED: another part of the process has called DismInitialize.
const dismAlreadyInitialized = 0xc0040001

// dismAPI are the functions of dismapi.dll ("DISM API Functions").
type dismAPI struct {
	initialize, openSession, featureInfo, enableFeature, free, closeSession, shutdown *windows.LazyProc
}

func loadDISM() dismAPI {
	dll := windows.NewLazySystemDLL("dismapi.dll")
	return dismAPI{
		initialize: dll.NewProc("DismInitialize"), openSession: dll.NewProc("DismOpenSession"),
		featureInfo: dll.NewProc("DismGetFeatureInfo"), enableFeature: dll.NewProc("DismEnableFeature"),
		free: dll.NewProc("DismDelete"), closeSession: dll.NewProc("DismCloseSession"), shutdown: dll.NewProc("DismShutdown"),
	}
}

// features are the optional features of the running Windows. The DISM API is initialized once for a process, so calls go one
// by one.
type features struct {
	mu  *sync.Mutex
	api dismAPI
}

// dismFeatureInfo is the beginning of DismFeatureInfo. dismapi.h packs its structures to one byte, which moves what comes after
// State; what is declared here lies at the same place either way.
type dismFeatureInfo struct {
	FeatureName *uint16
	State       uint32
}

func (f *features) Enabled(name string) (enabled, pending bool, err error) {
	err = f.session("look at feature", name, func(session uintptr) error {
		feature, err := windows.UTF16PtrFromString(name)
		if err != nil {
			return err
		}
		var info *dismFeatureInfo
		// DismPackageNone: no package is named.
		hr, _, _ := f.api.featureInfo.Call(session, uintptr(unsafe.Pointer(feature)), 0, 0, uintptr(unsafe.Pointer(&info)))
		if err := hresult("look at feature", name, hr); err != nil {
			return err
		}
		enabled, pending = featureState(info.State)
		_, _, _ = f.api.free.Call(uintptr(unsafe.Pointer(info)))
		return nil
	})
	return enabled, pending, err
}

// Enable also enables the parents of the feature. It takes minutes; DISM gives up when ctx ends.
func (f *features) Enable(ctx context.Context, name string) (reboot bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	cancel, err := windows.CreateEvent(nil, 1, 0, nil)
	if err != nil {
		return false, failed("enable feature", name, err)
	}
	defer func() { _ = windows.CloseHandle(cancel) }()
	// The event stays open until the goroutine that may set it has ended.
	var watch sync.WaitGroup
	done := make(chan struct{})
	watch.Go(func() {
		select {
		case <-ctx.Done():
			_ = windows.SetEvent(cancel)
		case <-done:
		}
	})
	defer func() { close(done); watch.Wait() }()
	err = f.session("enable feature", name, func(session uintptr) (err error) {
		reboot, err = f.enable(session, name, cancel)
		return err
	})
	if err != nil && ctx.Err() != nil {
		return false, ctx.Err()
	}
	return reboot, err
}

func (f *features) enable(session uintptr, name string, cancel windows.Handle) (reboot bool, err error) {
	feature, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return false, err
	}
	const yes = 1
	// Session, FeatureName, Identifier, PackageIdentifier, LimitAccess, SourcePaths, SourcePathCount, EnableAll,
	// CancelEvent, Progress, UserData.
	hr, _, _ := f.api.enableFeature.Call(session, uintptr(unsafe.Pointer(feature)), 0, 0, 0, 0, 0, yes, uintptr(cancel), 0, 0)
	reboot, ok := enableOutcome(uint32(hr))
	if !ok {
		return false, refuse("enable feature", name, uint32(hr))
	}
	return reboot, nil
}

// session opens a session on the running Windows and calls f with it, all on one thread, since the API uses COM.
func (f *features) session(op, name string, use func(session uintptr) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := f.api.initialize.Find(); err != nil {
		return failed(op, name, err)
	}
	const logErrors = 0
	hr, _, _ := f.api.initialize.Call(logErrors, 0, 0)
	if uint32(hr) != dismAlreadyInitialized {
		if err := hresult(op, name, hr); err != nil {
			return err
		}
		defer func() { _, _, _ = f.api.shutdown.Call() }()
	}
	image, err := windows.UTF16PtrFromString(onlineImage)
	if err != nil {
		return err
	}
	var session uint32
	hr, _, _ = f.api.openSession.Call(uintptr(unsafe.Pointer(image)), 0, 0, uintptr(unsafe.Pointer(&session)))
	if err := hresult(op, name, hr); err != nil {
		return err
	}
	defer func() { _, _, _ = f.api.closeSession.Call(uintptr(session)) }()
	return use(uintptr(session))
}

// hresult returns the error of an HRESULT; S_OK and "reload the session" are none.
func hresult(op, name string, hr uintptr) error {
	if code := uint32(hr); code != dismOK && code != dismReloadSession {
		return refuse(op, name, code)
	}
	return nil
}
