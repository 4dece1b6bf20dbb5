"""What tests share: `servers` launches real servers, `proxy` breaks connections, `crash` kills processes on cue."""
