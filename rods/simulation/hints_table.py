"""The hints by class: (a pattern of the simulator's error, which rule was broken and what to do next).

The first rule that fits and names only functions that the world has is used, so a hint that names one may be
followed by one that does not. `{function}` is the function that was called.
"""

from __future__ import annotations

FALLBACK = (
    "`{function}` did not work with these arguments. Read its description and compare each argument with what "
    "earlier results say before you call it again."
)

_FILES = (
    (
        r"Only one folder level",
        "`cd` takes the name of one folder, no path: go down with one call per folder, and up with `cd` to '..'.",
    ),
    (
        r"already the root",
        "You are at the top folder; only folders that `ls` lists can be entered from here.",
    ),
    (r"already the root|cd: \.\.", "There is no folder above this one; enter one that lies in this folder."),
    (
        r"^(find: |cd: )'.*No such file",
        "There is no folder of that name here. List this folder with `ls`, then move one level at a time.",
    ),
    (r"^(find: |cd: )'.*No such file", "There is no folder of that name in the current folder."),
    (
        r"Invalid character",
        'Give a bare name without a path or any of | / \\ ? % * : " > <. Use `cd` to go to the folder first.',
    ),
    (r"Invalid character", 'Give a bare name without a path or any of | / \\ ? % * : " > <.'),
    (r"echo: .*No such file", "`echo` only writes to files that exist: make the file with `touch` first."),
    (r"echo: .*No such file", "`echo` only writes to files that exist in the current folder."),
    (
        r"(mkdir|touch): .*File exists|already exists in directory",
        "The name is taken in this folder: use what is there, or choose another name.",
    ),
    (
        r"(mv|cp): .*File exists",
        "The target folder already holds an entry of that name: choose another name or remove the old one first.",
    ),
    (r"Is a directory", "That is a folder, not a file: enter it with `cd` and read the files in it."),
    (r"Is a directory", "That is a folder, not a file; only files can be read."),
    (r"invalid mode", "The mode of `wc` is 'l' for lines, 'w' for words or 'c' for characters."),
    (
        r"path not allowed",
        "The destination is one name in the current folder, no path: go to the folder with `cd` first, or move "
        "the entry level by level.",
    ),
    (r"path not allowed", "The destination is one name in the current folder, no path."),
    (
        r"(mv|cp): .*Not a directory",
        "The destination is a file that exists: give a folder, or a name that is not taken.",
    ),
    (r"rmdir: .*Not a directory", "`rmdir` removes folders only; remove a file with `rm`."),
    (r"rmdir: .*Not a directory", "`rmdir` removes folders only."),
    (
        r"not empty",
        "`rmdir` removes empty folders only: remove what is in it first, or use `rm` for the whole.",
    ),
    (r"not empty", "`rmdir` removes empty folders only: remove what is in it first."),
    (
        r"Not a file or directory",
        "Only files and folders of the current folder can be moved, copied or removed.",
    ),
    (
        r"No such file",
        "No entry of that name is in the current folder. See what is here with `ls`, look for it with `find`, and "
        "go to its folder with `cd`.",
    ),
    (r"No such file", "No entry of that name is in the current folder: check the name and the folder."),
)

_MATH = (
    (r"empty list", "The list has no numbers: give at least one."),
    (r"list must be numbers", "Every element of the list must be a number, without quotes."),
    (
        r"Conversion from .* not supported",
        "Use short unit names. `si_unit_conversion` knows km, m, cm, mm, um and nm; `imperial_si_conversion` knows "
        "pairs such as cm and in, m and ft, m and yd, km and miles, kg and lb, celsius and fahrenheit.",
    ),
    (
        r"Conversion from .* not supported",
        "These two units cannot be converted into one another: use short names.",
    ),
    (r"too large", "The result is out of range: convert a smaller value."),
    (r"divide by zero", "The divisor must not be 0."),
    (r"negative number", "Only numbers from 0 on have a square root here."),
    (r"Whole value", "The whole must not be 0 for a percentage to exist."),
    (r"second input must be an integer", "Give a number and a whole number of decimal places."),
    (r"must be a number|must be numbers|Both inputs", "Give numbers as numbers, without quotes."),
)

_MESSAGES = (
    (
        r"No user is currently logged in",
        "Nobody is logged in: call `message_login` with your own user ID first; `get_user_id` finds it by name.",
    ),
    (r"No user is currently logged in", "Nobody is logged in: log in with `message_login` first."),
    (r"No user is currently logged in", "Nobody is logged in, and this needs a user who is."),
    (r"User '.*' not found", "No user has that name: `list_users` shows the names; letter case counts."),
    (r"User '.*' not found", "No user has that name; letter case counts."),
    (
        r"Receiver ID",
        "Receivers are user IDs such as USR001, not names: find the ID with `get_user_id`. A message can only be "
        "deleted when you sent that user one.",
    ),
    (r"Receiver ID", "Receivers are user IDs such as USR001, not names."),
    (r"already exists", "That contact is there already: do not add it again, use it."),
)

_TWEETS = (
    (r"not authenticated", "Log in with `authenticate_twitter` first, then call `{function}` again."),
    (r"not authenticated", "You are not logged in, and this needs a user who is."),
    (
        r"Tweet with ID",
        "No tweet has that ID. Take the ID from the result of the post, or look with `get_user_tweets` or "
        "`search_tweets`.",
    ),
    (r"Tweet with ID", "No tweet has that ID: take the ID from an earlier result."),
)

_TICKETS = (
    (r"not authenticated", "Log in with `ticket_login` first, then call `{function}` again."),
    (r"not authenticated", "You are not logged in, and this needs a user who is."),
    (r"priority", "The priority is a whole number from 1 (low) to 5 (high)."),
    (
        r"Ticket with ID .* not found",
        "No ticket has that ID: take the ID from the result that made it, or list yours with `get_user_tickets`.",
    ),
    (r"Ticket with ID .* not found", "No ticket has that ID: take the ID from an earlier result."),
    (r"already (closed|resolved)", "The ticket is in that state already: nothing is left to do here."),
    (
        r"Invalid fields",
        "Only the fields title, description, status and priority of a ticket can be edited.",
    ),
)

_TRADING = (
    (r"not authenticated", "Log in with `trading_login` first, then call `{function}` again."),
    (r"not authenticated", "You are not logged in, and this needs a user who is."),
    (
        r"Stock with symbol|Invalid stock symbol",
        "Stocks go by ticker symbols: `get_symbol_by_name` gives the symbol of a company, `get_available_stocks` "
        "those of a sector.",
    ),
    (r"Stock with symbol|Invalid stock symbol", "Stocks go by ticker symbols, such as AAPL, not by names."),
    (
        r"Order with ID",
        "No order has that ID: take it from the result of `place_order`, or list yours with `get_order_history`.",
    ),
    (r"Order with ID", "No order has that ID: take it from an earlier result."),
    (r"already completed", "A completed order stays: only an open or pending one can be cancelled."),
    (r"KeyError during", "The record of that order is incomplete: no other arguments will help."),
    (r"Price and amount", "Both the price and the amount must be above 0."),
    (
        r"Insufficient funds: required",
        "The order costs more than the balance: add money with `fund_account`, or order less.",
    ),
    (
        r"Insufficient funds for",
        "You can withdraw at most the balance: `get_account_info` shows it.",
    ),
    (r"Insufficient funds", "The balance does not suffice: choose a smaller amount."),
    (r"Market is closed", "Money only moves while the market is open: `get_current_time` tells the time."),
    (r"Market is closed", "Money only moves while the market is open."),
    (r"must be positive", "The amount must be above 0."),
    (r"not found in watchlist", "That stock is not watched: `get_watchlist` shows which are."),
    (r"not found in watchlist", "That stock is not watched, so nothing can be removed."),
)

_TRAVEL = (
    (
        r"Token (expired|not initialized)|Invalid access token",
        "Use the access token that `authenticate_travel` gives: call it, then repeat `{function}` with that token.",
    ),
    (
        r"Token (expired|not initialized)|Invalid access token",
        "The access token is not valid: use the one that an earlier result gave.",
    ),
    (r"Card already registered", "The card is registered: go on with it."),
    (
        r"[Cc]ard not registered",
        "Give the ID of a registered card, not its number: see `get_all_credit_cards`, or register the "
        "card with `register_credit_card` and use the ID that it returns.",
    ),
    (r"[Cc]ard not registered", "Give the ID of a registered card, not its number."),
    (r"Balance not found", "This card has no balance: pay with another registered card."),
    (
        r"airport code|No available route",
        "Airports go by three capital letters, such as SFO: `get_nearest_airport_by_city` finds the one of a city, "
        "`list_all_airports` lists all. Not every pair has flights.",
    ),
    (
        r"airport code|No available route",
        "Airports go by three capital letters, such as SFO, and not every pair of them has flights.",
    ),
    (r"travel class", "The class is economy, business or first, in small letters."),
    (r"date format", "Write dates as YYYY-MM-DD, for example 2024-11-05."),
    (
        r"Insufficient funds",
        "The card cannot pay this: `get_credit_card_balance` shows what it holds; use another card or class.",
    ),
    (r"Insufficient funds", "The card cannot pay this: use another card or a cheaper class."),
    (
        r"budget limit",
        "The budget limit stands in the way: change it with `set_budget_limit`, or spend less.",
    ),
    (r"budget limit", "The budget limit stands in the way: spend less."),
    (
        r"Booking not found",
        "Use the booking ID that `book_flight` returned; `get_booking_history` lists all of them.",
    ),
    (r"Booking not found", "No booking has that ID: take it from an earlier result."),
    (
        r"exchange rate",
        "Use currency codes of three capital letters, such as USD and EUR; not every pair is known.",
    ),
)

_VEHICLE = (
    (
        r"doors must be locked",
        "Lock every door first: call `lockDoors` with unlock false and all four doors, then `startEngine` again.",
    ),
    (r"doors must be locked", "Every door must be locked before the engine starts."),
    (
        r"Brake pedal needs|press the brake fully",
        "Press the brake to the floor first: call `pressBrakePedal` with 1.0, then `startEngine` again.",
    ),
    (
        r"Brake pedal needs|press the brake fully",
        "The brake must be pressed to the floor before the engine starts.",
    ),
    (
        r"Fuel tank is empty\.$",
        "There is no fuel: add some with `fillFuelTank`, then call `startEngine` again.",
    ),
    (r"Fuel tank is empty", "There is not enough fuel for this."),
    (r"ignition mode", "The ignition mode is START or STOP, in capital letters."),
    (r"cannot be negative", "The amount is what to add, in gallons, from 0 on."),
    (
        r"above the tank",
        "The tank holds 50 gallons with what is in it: see the level with `displayCarStatus` (fuel), then add less.",
    ),
    (r"above the tank", "The tank holds 50 gallons with what is in it: add less."),
    (r"Fan speed", "The fan speed is a number from 0 to 100."),
    (r"^404$", "This source gives no temperature: ask `get_outside_temperature_from_google`."),
    (r"^404$", "This source gives no temperature."),
    (r"headlight mode", "The headlights are set to on, off or auto."),
    (
        r"Invalid option",
        "Ask for one of fuel, battery, doors, climate, headlights, parkingBrake, brakePedal and engine.",
    ),
    (r"Invalid mode", "The parking brake takes engage or release."),
    (r"Pedal position", "The pedal's position is a number from 0 (free) to 1 (pressed to the floor)."),
    (r"before activating the cruise", "Cruise control needs a running engine: call `startEngine` first."),
    (r"before activating the cruise", "Cruise control needs a running engine."),
    (r"Invalid speed", "The speed is a multiple of 5 from 0 to 120."),
    (
        r"distance not found",
        "Cities go by zip codes here: `get_zipcode_based_on_city` gives them. Not every pair has a known distance.",
    ),
    (r"distance not found", "Cities go by zip codes here, and not every pair has a known distance."),
)

RULES: dict[str, tuple[tuple[str, str], ...]] = {
    "GorillaFileSystem": _FILES,
    "MathAPI": _MATH,
    "MessageAPI": _MESSAGES,
    "TwitterAPI": _TWEETS,
    "TicketAPI": _TICKETS,
    "TradingBot": _TRADING,
    "TravelAPI": _TRAVEL,
    "VehicleControlAPI": _VEHICLE,
}
