'use strict';
// Time: the slider stops where something happens; play goes from stop to stop.

/** setClock takes the stops of a new play. A lesson begins at the first of them, a capture is seen whole. */
function setClock(keep) {
  const atEnd = app.now >= app.end;
  app.stops = stopsOf(app.play);
  app.end = app.stops.length ? app.stops[app.stops.length - 1] : 0;
  if (!keep) app.now = app.mode === 'lessons' ? app.stops[0] || 0 : app.end;
  else if (atEnd) app.now = app.end;
  app.now = Math.min(app.now, app.end);
  showClock();
}

function showClock() {
  const at = Math.max(0, lastStop(app.stops, app.now));
  const slider = byId('slider');
  slider.max = Math.max(0, app.stops.length - 1);
  slider.value = at;
  const text = `${timeText(app.now, Math.max(app.end, 1))}`;
  slider.setAttribute('aria-valuetext', text);
  byId('time').textContent = text;
  byId('play-icon').setAttribute('d', app.playing ? 'M4 3h3v10H4zM9 3h3v10H9z' : 'M4 2.5v11l9-5.5z');
  byId('play').setAttribute('aria-label', app.playing ? 'Pause' : 'Play');
  byId('step-back').disabled = walking() ? app.step === 0 : at <= 0;
  byId('step-on').disabled = !walking() && at >= app.stops.length - 1;
}

/** goTo moves the time to a stop, and the ladder with it. */
function goTo(stop) {
  if (!app.stops.length) return;
  const at = Math.min(Math.max(stop, 0), app.stops.length - 1);
  if (walking()) {
    app.step = stepAt(app.stops[at]);
    showLesson();
  }
  arrive(app.stops[at]);
}

/** step is one step of the walk, or from one time at which something happens to the next. */
const step = (by) => {
  if (walking()) {
    walkTo(app.step + by);
    return;
  }
  pause();
  goTo(lastStop(app.stops, app.now) + by);
};

function pause() {
  cancelAnimationFrame(app.travel);
  clearInterval(app.playing);
  app.playing = 0;
  showClock();
}

/** togglePlay plays from here, or from the beginning if this is the end. */
function togglePlay() {
  if (app.playing) {
    pause();
    return;
  }
  if (app.now >= app.end) goTo(0);
  app.playing = setInterval(() => {
    const at = lastStop(app.stops, app.now);
    if (at >= app.stops.length - 1) pause();
    else goTo(at + 1);
  }, app.play.entries ? 700 : 200);
  showClock();
}
